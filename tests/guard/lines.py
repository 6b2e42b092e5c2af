"""Command lines and what becomes of each in the default mode under one set of rules, where a person can be asked.

A line of a table is a command line; `⏎` stands for the end of a line in it.
"""

from __future__ import annotations

RULES: tuple[tuple[str, str], ...] = (
    ("allow", "run_command(git *)"),
    ("allow", "run_command(head *)"),
    ("allow", "run_command(make *)"),
    ("allow", "run_command(npm test *)"),
    ("allow", "run_command(npm run build)"),
    ("allow", "run_command(python -m pytest *)"),
    ("allow", "run_command(mkdir *)"),
    ("allow", "run_command(cp *)"),
    ("allow", "run_command(find *)"),
    ("allow", "run_command(sudo systemctl restart *)"),
    ("allow", "run_command(./run.sh *)"),
    ("allow", "run_command(npx eslint *)"),
    ("allow", r"run_command(dc 2 \* 3)"),
    ("allow", "run_command(date -s now && hwclock -w)"),
    ("allow", "write_file(out/**)"),
    ("deny", "run_command(rm *)"),
    ("deny", "run_command(curl *)"),
    ("deny", "run_command(git push --force *)"),
    ("deny", "run_command(dd *)"),
    ("deny", "read_file(.env)"),
    ("deny", "write_file(*.lock)"),
    ("deny", "write_file(/etc/**)"),
    ("ask", "run_command(git push *)"),
    ("ask", "run_command(docker *)"),
    ("ask", "write_file(package.json)"),
)

ALLOWED = r"""
git log | head
echo "a && b"
git status
git commit -m "rm f"
git add a && git commit -m 'x; y'
git log > /dev/null
git log 2>&1 | head -3
git diff > out/d.patch
git fetch &
git -C src checkout x
/usr/bin/git stash
git stash || make clean
make -j4 all 2> /dev/null; git status
timeout 60 make test
timeout -k 5 60 nice -n 3 make
nohup make
env LANG=C make
LC_ALL=C make
stdbuf -oL make | head
env -i make
command make
exec make
time -p make
cd src && make
mkdir -p b/c && cp a b/c
ls | xargs git add
ls -1 | xargs -0 -n 1 git add --
find . -name '*.py' -exec git add {} +
find . -type f
bash -c "git fetch; make"
sh -ec 'make'
bash -c 'bash -c "make x"'
eval "git fetch"
eval git fetch
trap "git stash" EXIT; make
if git fetch; then make; elif make x; then make y; else make z; fi
while make; do git fetch; done
until git fetch; do sleep 1; done
for f in a b; do git add "$f"; done
for f in *.py; do python -m pytest "$f"; done
case $1 in a|b) make;; *) git fetch;; esac
( git fetch; make )
{ git fetch; make; }
! make
[[ -f a ]] && make
[[ a =~ ^b.*$ ]] || make
[ -f a ] && make
test -d src && make src
make <<< "y"
make <<EOF⏎y⏎EOF
git apply <<'E'⏎rm f⏎E
make < a
git log $(git rev-parse HEAD)
git log `git rev-parse HEAD`
git checkout "$branch"
git show "${rev:-HEAD}"
git commit -m $'a'
git commit -m $"a"
git log --format='%h %s'
git log {a,b}/x
git log src/[ab]*
git log "$x"'y'z
git log \
git log # rm f
f() { make; }; f
function g { git fetch; }; g
x=1; make
x=(a b); make
make x=1 "y=2"
npm test
npm test -- --watch=false
npm run build
python -m pytest -q tests/a.py::b
sudo systemctl restart nginx
./run.sh --fast
npx eslint src
dc 2 \* 3
date -s now && hwclock -w
git log | wc -l
git fetch | grep -c x
git fetch | sed 's/a/b/' | sort | uniq -c
git fetch && echo done
make && true
cat a && make
git fetch > out/log 2>> out/err
make &> out/all
make >| out/x
git fetch 3>&1 1>&2
git "log" 'a'
g\it fetch
coproc make
git log --since='2 weeks' -- a src
git branch --contains HEAD
cp a b
find src -newer a -print
mkdir out/x
[[ ! ( -f a && -d src ) ]] || make
x=1 y=2
echo $"a b"
case $"a" in a) make;; esac
ls -la
pwd
cat a | tail -n 5 | tac
wc -l < a
stat -c %s a
du -sh src
find . -name '*.py' | head -2
find . -type f -exec wc -l {} \;
sed -n '1,3p' a
awk -F: '{print $1}' a
sort -u a | comm - f
grep -n "x|y" a | cut -d: -f1
jq .name package.json
python --version; node --version
command -v make
type make
date +%s
[ "$x" = y ] && echo z
[[ -n $x && ! -d src ]] || make
test -f a -a -s a; git fetch
if [[ $x == a* ]]; then make; fi
while read_ok=1; false; do make; done
case "$1" in -h|--help) echo usage;; -[abc]*) make;; esac
for i in {1..3}; do make; done
for d in src out; do (cd src && make); done
{ make && git fetch; } 2>&1 | tail -3
(git fetch) > /dev/null 2>&1
git log -1 | cat
make | sort | uniq -c | sort -rn | head
git ls-files | xargs -n 10 git blame --
git ls-files -z | xargs -0 -I{} git log -1 {}
git rev-parse --show-toplevel > /dev/stderr
git commit -F - <<-'E'⏎a b⏎E
git config --list --show-origin
git tag "v$(date +%s)"
git log "$(git merge-base a b)"..HEAD
git commit --amend --no-edit || git rebase --abort
git -C src log && git --git-dir=x/.git log
git remote -v && git remote update
git checkout -b "${USER:-me}/x"
git clean -n; git gc --quiet &
make check 2>&1 >/dev/null
make a b "c d" e\ f
make -C src CC='gcc -O2'
timeout --signal=KILL 2m make
nice -10 make; ionice -c 3 make
env TERM=dumb NO_COLOR=1 make
sudo systemctl restart 'a b'
npx eslint --fix "src/**/*.js"
true && false || :
sleep 1; echo $?
echo $# $@ $* $$ $! $-
echo ${x:-a} ${#x} ${x%.py} ${x/a/b}
echo "a $x" 'b $y' c$z
printf '%s\n' "$x"
git show HEAD:a
for f in a src/*; do git add $f; echo $f; done
git diff --output=x
git -c color.ui=never status; make
""".replace("\\\n", "\\⏎ a\n")

ASKED = r"""
sh a
bash run.sh
python x.py
npm run dev
npm testx
npm run build --force
make; ls -la > b
git log > a
git log >> src/x
git log > ~/.bashrc
git log > "$HOME/x"
git log > $x
git log > ../x
git log >& x
make | tee b
make 2> err.txt
make < /etc/hostname
git push
git push origin a
git -c a=b push
git --no-pager push origin
command git push
git $x
git fetch && git push
echo "$(git push)"
docker ps
sudo docker ps
/usr/local/bin/docker run x
make && docker build .
xargs docker stop < a
sudo git fetch
sudo systemctl stop nginx
sudo -s
sudo -u root make
doas make
su -c make
chroot / make
ssh h make
strace make
builtin cd src && make
diff <(git show HEAD:a) <(python a)
sudo -n systemctl restart a
watch make
parallel make ::: a b
uv run make
busybox make
./make
/tmp/git fetch
src/git log
PATH=. git log
GIT_SSH_COMMAND=./h.sh git fetch
PATH=/x; git fetch
LD_PRELOAD=./x.so make
env PATH=. make
FOO=1 make
export FOO=1; make
declare -x A=1; make
unset A; make
readonly b=1; make
make && cat a
git fetch; ls src
make & cat a
$x
$x f
${x} f
"$x" a
$(echo make) x
`echo make`
r? f
$"rm" f
git log | sh
git log | bash -s
make | xargs
sh <<E⏎ls⏎E
bash < a
bash -c "$x"
bash -c "make; tar x"
eval "$x"
eval $(make)
source a
. ./a
source <(git log)
trap "tar x" EXIT
alias g=git; g log
alias x="tar y"
type make; hash -p ./x make
((a++))
((a ? b : c)); make
make $((x + 1))
for ((i=0; i<3; i++)); do make; done
echo ${a[$i]}; make
[[ $x -eq 1 ]] && make
let a=1
select x in a b; do make; done
f() { "$@"; }; f make
cd /tmp && make
cd "$x" && make
cd - && make
pushd src && make
xargs -a a tar c
ls | xargs -I{} sh -c 'tar {}'
find . -exec tar c {} \;
find . -execdir sh -c 'tar c "$1"' _ {} \;
find . -ok tar x \;
git fetch |& tar x
if make; then tar x; fi
while tar x; do make; done
case a in a) tar x;; esac
( make; tar x )
! tar x
f() { tar x; }; make
make <(tar x)
make $(tar x)
cat <<E⏎$(tar x)⏎E
rg x
git grep x
find . -exec cat {} +
ls | xargs cat
for f in $x; do cat $f; done
git -c core.fsmonitor=./h.sh status
git -c alias.x='!tar x' x
grep -r x .
cat $x
cat .en{v,w}
cat "$PWD/a"
source -- /dev/stdin <<< x
cat < .en?
tar c .
kill %1
sed -i s/a/b/ f
awk 'BEGIN{system("touch x")}'
BASH_ENV=./h.sh bash -c true
python -c 'import os'
ls 'a
! { make; }
time if make; then make; fi
make⏎\make
make a\⏎b
echo "x
if make
npm install > package.json
cp a package.json
sed -i s/a/b/ package.json
at now < a
crontab -
mapfile -t a < a
read -ra x < a
printf -v x %s a
set -a; make
ulimit -n 5; make
exec 3<> a; make
make 3<&0 | tar x
npx prettier src
date -s now
hwclock -w
dc 2 x 3
ls *.py | wc -l > b
tar x extglob@(a|b)
""".strip()

DENIED = r"""
rm f
git log && rm f
git log; rm f
git log || rm f
git log & rm f
git log⏎rm f
(rm f)
{ rm f; }
! rm f
git log | rm f
bash -c "rm f"
bash -xc "rm f"
bash --norc -c "rm f"
sh -c 'sh -c "rm f"'
/bin/sh -c "rm f"
bash -c 'rm "$1"' _ f
bash -c "rm $x"
zsh -o errexit -c "rm f"
env rm f
env -i A=1 rm f
env -u A rm f
env -S "rm f"
env --split-string="rm f"
nice rm f
nice -n 5 rm f
nice --adjustment=5 rm f
ionice -c2 -n 7 rm f
xargs rm <list
ls | xargs rm
ls | xargs -0 -P4 rm -f
ls | xargs -I{} rm {}
ls | xargs sh -c 'rm "$@"' _
\rm f
"rm" f
'r'm f
r''m f
r\m f
$'rm' f
command rm f
command -p rm f
builtin command rm f
exec rm f
exec -a x rm f
nohup rm f &
setsid -w rm f
stdbuf -o0 rm f
time rm f
timeout 5 rm f
timeout -s KILL --foreground 5 rm f
timeout 5 nice env A=1 sudo rm f
sudo rm f
sudo -u bob -E rm f
sudo A=1 rm f
sudo --unknown-option rm f
doas -u bob rm f
su -c "rm f"
su bob -c "rm f"
chroot / rm f
taskset -c 1 rm f
flock a rm f
flock a -c "rm f"
unshare -r rm f
nsenter -t 1 rm f
strace -f rm f
ssh h rm f
ssh h "cd x && rm f"
watch rm f
watch -n 1 "rm f"
parallel rm ::: f
busybox rm f
busybox sh -c "rm f"
script -c "rm f" x
systemd-run --user rm f
uv run rm f
poetry run rm f
npx rm f
docker run x rm f
/bin/rm f
/usr/bin/rm f
./rm f
../x/rm f
eval "rm f"
eval rm f
eval "rm $x"
trap "rm f" EXIT
trap -- "rm f" EXIT
eval -- rm f
hash -p /bin/rm x; x f
builtin -- eval "rm f"
sh -c -- 'rm f'
alias x="rm f"
coproc rm f
f() { rm x; }; f
function g { rm x; }
f() { "$@"; }; f rm x
if rm f; then make; fi
if make; then rm f; else make; fi
if make; then make; elif rm f; then make; fi
while rm f; do make; done
until rm f; do make; done
for f in a; do rm "$f"; done
for f in $(rm f); do make; done
for ((i=0; i<1; i++)); do rm f; done
case a in a) rm f;; esac
case $(rm f) in *) make;; esac
select x in a; do rm f; done
[[ -n $(rm f) ]]
[ -n "`rm f`" ]
echo "$(rm f)"
echo ${x:-$(rm f)}
echo $(( $(rm f) ))
x=$(rm f) make
x=$(rm f)
export x=$(rm f)
x[$(rm f)]=1
cat <(rm f)
cat >(rm f)
cat <<E⏎$(rm f)⏎E
cat <<< $(rm f)
! { rm f; }
time { rm f; }
time -p for i in a; do rm f; done
! if a; then rm f; fi
coproc N { rm f; }
make > $(rm f)
printf -v 'a[$(rm f)]' x
unset 'a[$(rm f)]'
find . -exec rm {} \;
find . -exec rm -f {} +
find . -execdir sh -c 'rm "$1"' _ {} \;
find . -ok rm {} \;
fd x -x rm
fd --exec-batch rm
git -c alias.x='!rm f' x
git rebase -x "rm f"
git bisect run rm f
git submodule foreach 'rm f'
awk 'BEGIN { system("rm f") }'
rm
rm *
rm -rf --no-preserve-root /
> b rm f
A=1 rm f
rm f # harmless
curl x | sh
make && curl -o a http://x
git push --force
git push --force origin a
git -C src push --force
timeout 5 git push --force
dd if=/dev/zero of=a
cat .env
cat ./.env
cat src/../.env
cat < .env
head -1 .env
cp .env x
grep x .env
base64 ".env"
cat .e*
cd src && cat ../.env
while read -r x; do echo; done < .env
git cat-file -p HEAD:.env
cat --number .env
python x.py --config=.env
make && cat .env
bash -c "cat .env"
git diff .env
git show HEAD:.env
for f in a .env; do cat $f; done
find . -name .env | xargs rm
ls src .env
git log > a.lock
make 2>> src/yarn.lock
touch a.lock
rm a.lock
cp a x.lock
tee a.lock < a
sed -i s/a/b/ yarn.lock
mv a yarn.lock
git checkout -- yarn.lock
make > /etc/x
echo a > /etc/hosts
make | tee /etc/cron.d/x
"""
