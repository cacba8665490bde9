"""How a page looks, and the one script it has, which sorts tables."""

from __future__ import annotations

STYLE = """
:root{color-scheme:light dark;--paper:#fff;--ink:#1b2430;--quiet:#55606d;--rule:#dde3ea;--soft:#f4f6f9;--band:#e3ebf4;
--slower:#b3261e;--faster:#1c5aa6;--same:#256c3a;--open:#855300;
--heat:#b14a06;--s0:#1c5aa6;--s1:#b14a06;--s2:#256c3a;--s3:#86358a;--s4:#55606d;--s5:#0b6c75}
@media(prefers-color-scheme:dark){:root{--paper:#12171d;--ink:#e5e9ee;--quiet:#a5b0bc;--rule:#2c353f;--soft:#1a2129;
--band:#243140;--slower:#ff9287;--faster:#82b9ff;--same:#82d29d;--open:#efc063;
--heat:#9a4a12;--s0:#82b9ff;--s1:#ffb27a;--s2:#82d29d;--s3:#e2a5de;--s4:#b5bfca;--s5:#70d2da}}
*{box-sizing:border-box}
html{font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",sans-serif;
background:var(--paper);
color:var(--ink);-webkit-text-size-adjust:100%;scroll-behavior:smooth}
body{max-width:76rem;margin:0 auto;padding:2.5rem 1.25rem 4rem;overflow-wrap:anywhere}
header p.of{margin:0 0 .4rem;color:var(--quiet);font-size:.9rem}
h1{font-size:clamp(1.3rem,1rem + 1.6vw,1.9rem);line-height:1.25;font-weight:650;letter-spacing:-.01em;margin:0 0 1.2rem;
text-wrap:pretty}
h1.worse{color:var(--slower)}h1.fine{color:var(--same)}h1.open{color:var(--open)}
h2{font-size:1.25rem;line-height:1.3;font-weight:650;margin:0;letter-spacing:-.005em}
h3{font-size:1rem;line-height:1.4;font-weight:650;margin:0 0 .15rem}
nav ul{display:flex;flex-wrap:wrap;gap:.35rem 1.1rem;list-style:none;padding:0;margin:0 0 1rem;font-size:.9rem}
a{color:var(--faster);text-underline-offset:.15em;text-decoration-thickness:1px}
section,details.section{border-top:1px solid var(--rule);padding:1.6rem 0 .6rem;margin-top:1.4rem}
section>h2{margin-bottom:.9rem}
summary{cursor:pointer;color:var(--quiet);font-size:.9rem;padding:.15rem 0;width:fit-content}
summary h2{display:inline;color:var(--ink)}
summary:hover,summary:hover h2{color:var(--faster)}
:focus-visible{outline:2px solid var(--faster);outline-offset:2px;border-radius:2px}
p{margin:.45rem 0;max-width:46rem}
p.warning{border-left:3px solid var(--open);padding:.1rem 0 .1rem .8rem}
p.note{color:var(--quiet);font-size:.9rem}
pre{background:var(--soft);border:1px solid var(--rule);border-radius:6px;padding:.7rem .9rem;overflow-x:auto;
font:.85rem/1.5 ui-monospace,"SF Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:pre-wrap;margin:.6rem 0}
figure{margin:1.1rem 0 1.7rem}figure>.scroll:has(svg){max-width:64rem}
figcaption p{color:var(--quiet);font-size:.9rem;margin:0 0 .5rem}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:.86rem;line-height:1.4;font-variant-numeric:tabular-nums;margin:.4rem 0}
caption{text-align:left;font-weight:650;font-size:.95rem;padding:.2rem 0 .4rem}
th,td{padding:.28rem .6rem;text-align:left;vertical-align:top;border-bottom:1px solid var(--rule)}
th:first-child,td:first-child{padding-left:0}
td{white-space:nowrap}td.long{white-space:normal;overflow-wrap:break-word;min-width:11rem}
thead th{color:var(--quiet);font-weight:600;border-bottom:1px solid var(--quiet);vertical-align:bottom;
white-space:nowrap}
.n{text-align:right;white-space:nowrap}
tbody tr:hover{background:var(--soft)}
th button{font:inherit;color:inherit;background:none;border:0;padding:0;cursor:pointer;text-align:inherit}
th button::after{content:"";display:inline-block;width:.9em;text-align:center}
th[aria-sort=ascending] button::after{content:"\\2191"}th[aria-sort=descending] button::after{content:"\\2193"}
svg{display:block;max-width:100%}
svg.plot{font-size:12px;overflow:visible}
svg.at{overflow:visible}
.plot text{fill:var(--ink)}.plot text.quiet,.plot text.tick{fill:var(--quiet)}.plot text.tick{font-size:11px}
.plot text.strong{font-weight:650}
.halo{stroke:var(--paper);stroke-width:3;paint-order:stroke}
.plot text{font-variant-numeric:tabular-nums}
.heat{fill:var(--heat)}.grid{stroke:var(--rule)}.one{stroke:var(--quiet)}.band{fill:var(--band)}
.mark{stroke:var(--paper);stroke-width:1}.curve{fill:none;stroke-width:2;stroke-linejoin:round}
.ticked{stroke-width:2}.dashed{stroke-dasharray:6 4}.faint{opacity:.6}
.slower{fill:var(--slower);stroke:var(--slower)}.faster{fill:var(--faster);stroke:var(--faster)}
.same{fill:var(--same);stroke:var(--same)}.open{fill:var(--open);stroke:var(--open)}
.plot text.slower,.plot text.faster,.plot text.same,.plot text.open{stroke:none}
.plot text.slower{fill:var(--slower)}.plot text.faster{fill:var(--faster)}.plot text.same{fill:var(--same)}
.plot text.open{fill:var(--open)}.mark.slower,.mark.faster,.mark.same,.mark.open{stroke:var(--paper)}
.mark.hollow{fill:var(--paper);stroke:var(--open);stroke-width:2}
.s0{fill:var(--s0);stroke:var(--s0)}.s1{fill:var(--s1);stroke:var(--s1)}.s2{fill:var(--s2);stroke:var(--s2)}
.s3{fill:var(--s3);stroke:var(--s3)}.s4{fill:var(--s4);stroke:var(--s4)}.s5{fill:var(--s5);stroke:var(--s5)}
.mark.s0,.mark.s1,.mark.s2,.mark.s3,.mark.s4,.mark.s5{stroke:var(--paper)}
rect.s0,rect.s1,rect.s2,rect.s3,rect.s4,rect.s5{stroke:none}.curve{fill:none!important}
.fixed rect[fill="#ffffff"]{fill:var(--paper)}.fixed text{fill:var(--ink);stroke:none}
.fixed rect[fill="#eef2f6"],.fixed rect[fill="#ececec"]{fill:var(--soft)}.fixed rect[fill="#d8e6f3"]{fill:var(--band)}
.fixed rect[fill="#e7def2"]{fill:color-mix(in srgb,var(--s3) 18%,var(--paper))}
.fixed rect[fill="#dcefd2"]{fill:color-mix(in srgb,var(--s2) 18%,var(--paper))}
.fixed{max-width:none}
@media(max-width:44rem){body{padding:1.4rem 1rem 3rem}.plot .wide{display:none}}
@media print{html{font-size:11px}body{max-width:none;padding:0}nav{display:none}figure,tr{break-inside:avoid}
h2,h3{break-after:avoid}figure details::details-content{content-visibility:visible;block-size:auto}pre{border:0}}
@media(prefers-reduced-motion:reduce){html{scroll-behavior:auto}}
"""

SCRIPT = """
for(const th of document.querySelectorAll("thead th")){
const b=document.createElement("button");b.type="button";b.append(...th.childNodes);th.append(b);
b.addEventListener("click",()=>{
const row=th.parentNode,body=row.closest("table").tBodies[0],at=[...row.children].indexOf(th);
const down=th.getAttribute("aria-sort")==="ascending",key=tr=>tr.children[at].dataset.v??tr.children[at].textContent;
for(const other of row.children)other.removeAttribute("aria-sort");
th.setAttribute("aria-sort",down?"descending":"ascending");
const compare=(one,two)=>{
const a=key(one),b=key(two);
if(!a||!b)return !a-!b;
const order=isNaN(a)||isNaN(b)?a.localeCompare(b,undefined,{numeric:true}):a-b;
return down?-order:order};
body.append(...[...body.rows].sort(compare))})}
"""
"""A click on a heading sorts by its column, unknown values last; ``data-v`` is the value that a cell has words for."""
