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
