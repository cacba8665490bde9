#!/bin/sh
# Inside an image: install the wheel that was put into /opt/primbench, with EXTRAS such as torch,cuda13.
# What the base image brought stays if it will do; all else has the version that constraints.txt gives it.
set -eu
cd /opt/primbench
python3 -m pip list --format=freeze > base.txt
awk -F== '{ name = tolower($1); gsub(/[-_.]+/, "-", name) } NR == FNR { there[name]; next } !(name in there)' \
  base.txt constraints.txt > pins.txt
PIP_BREAK_SYSTEM_PACKAGES=1 python3 -m pip install --no-cache-dir --root-user-action=ignore --constraint pins.txt \
  "$(echo "$PWD"/primbench-*.whl)${1:+[$1]}"
