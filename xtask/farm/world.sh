#!/bin/bash
# Second part of record.sh, inside the namespaces: builds a small world in which the only home is
# /home/dev, the only agent is /opt/agents/$AGENT and the only network is loopback.
set -eu
hostname devbox
ip link set lo up
mount -t tmpfs none /run
mkdir -p /run/out /run/dev
mount --bind "$OUT" /run/out
mount -t tmpfs none /opt
mkdir -p /opt/farm "/opt/agents/$AGENT" /opt/agents/node24
mount --bind "$FARM" /opt/farm
mount --bind "$FARM_AGENTS/$AGENT" "/opt/agents/$AGENT"
[ ! -d "$FARM_AGENTS/node24" ] || mount --bind "$FARM_AGENTS/node24" /opt/agents/node24
mount -t tmpfs none /home
mkdir -p /home/dev
mount --bind "$OUT/home" /home/dev
printf 'dev:x:0:0:Dev:/home/dev:/bin/bash\n' > /run/passwd
mount --bind /run/passwd /etc/passwd
printf '127.0.0.1 localhost devbox\n' > /run/hosts
mount --bind /run/hosts /etc/hosts
mkdir /run/devices # devices of its own: an agent that is root must not reach the machine's
mount -t tmpfs none /run/devices
mkdir /run/devices/pts /run/devices/shm
for device in null:3 zero:5 full:7 random:8 urandom:9; do
    mknod -m 666 "/run/devices/${device%:*}" c 1 "${device#*:}"
done
mknod -m 666 /run/devices/tty c 5 0
mount -t devpts -o newinstance,ptmxmode=0666 none /run/devices/pts
ln -s pts/ptmx /run/devices/ptmx
ln -s /proc/self/fd /run/devices/fd
for stream in stdin:0 stdout:1 stderr:2; do ln -s "fd/${stream#*:}" "/run/devices/${stream%:*}"; done
mount --move /run/devices /dev
for directory in /*/; do # cover everything that does not belong to the system
    case $directory in
        /bin/ | /boot/ | /dev/ | /etc/ | /home/ | /lib*/ | /opt/ | /proc/ | /run/ | /sbin/ | /sys/ | /usr/ | /var/) ;;
        *) mount -t tmpfs none "$directory" ;;
    esac
done
cd /home/dev/proj
exec env -i HOME=/home/dev USER=dev LOGNAME=dev SHELL=/bin/bash LANG=C.UTF-8 TZ=UTC \
    TERM=xterm-256color TMPDIR=/run/dev PATH=/usr/local/bin:/usr/bin:/bin \
    AGENT="$AGENT" SCENARIO="$SCENARIO" TRUTH=/run/out/truth.jsonl \
    FARM_DEBUG="${FARM_DEBUG:+/run/out/debug.jsonl}" TUI_LOG="${FARM_DEBUG:+/run/out/terminal.log}" \
    bash /opt/farm/play.sh
