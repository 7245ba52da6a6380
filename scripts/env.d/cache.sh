# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# The cache and the steps that fill it.
#
# A step makes one directory of the cache from one key. It works in a scratch
# directory, which is renamed into place when it is whole; the stamp that says
# so is written last. Whatever interrupts it, the next run starts it afresh.

: "${WEFT_CACHE:=${XDG_CACHE_HOME:-$HOME/.cache}/weft}"
export WEFT_CACHE

say() { printf '%s\n' "$*" >&2; }
die() { say "env: $*"; exit 1; }

# The steps the present goal consists of, for the "[3/7]" of the messages.
PLAN=()

# One process at a time fills the cache. The descriptor is inherited by what a
# step starts, so a build that outlives its killed parent still holds the lock.
cache_lock() {
	[ -z "${WEFT_CACHE_LOCKED:-}" ] || return 0
	mkdir -p "$WEFT_CACHE"/{log,stamp}
	exec 9>"$WEFT_CACHE/lock"
	if ! flock -n 9; then
		say "waiting for another run that is filling $WEFT_CACHE"
		flock 9
	fi
	export WEFT_CACHE_LOCKED=1
	rm -rf "$WEFT_CACHE/tmp"
	mkdir "$WEFT_CACHE/tmp"
}

# A short digest of the files and strings given, as a key.
digest() {
	local arg
	for arg; do
		if [ -f "$arg" ]; then cat "$arg"; else printf '%s\n' "$arg"; fi
	done | sha256sum | cut -c1-16
}

# recipe FILE FUNCTION: how something is made, as part of its key.
recipe() { sed -n "/^$2() {/,/^}/p" "$ENV_D/$1"; }

# step_done NAME KEY: is what the step makes there, made from this very key?
step_done() {
	[ -e "$WEFT_CACHE/stamp/$1" ] && [ "$(<"$WEFT_CACHE/stamp/$1")" = "$2" ]
}

step_forget() { rm -f "$WEFT_CACHE/stamp/$1"; }

step_number() {
	local i
	for i in "${!PLAN[@]}"; do
		[ "${PLAN[i]}" != "$1" ] || { printf '[%d/%d] ' $((i + 1)) ${#PLAN[@]}; return; }
	done
}

# step NAME KEY "what it does (about how long)" COMMAND ARG...
# COMMAND runs with its output in the step's log and stops at the first error.
step() {
	local name=$1 key=$2 what=$3 start=$SECONDS log
	shift 3
	step_done "$name" "$key" && return
	cache_lock
	step_done "$name" "$key" && return # another process did it meanwhile

	step_forget "$name"
	log=$WEFT_CACHE/log/$name.log
	say "$(step_number "$name")$what"
	# Not `if ! (…)`: that would switch errexit off inside.
	set +e
	(set -e; "$@") >"$log" 2>&1 </dev/null
	local rc=$?
	set -e
	if [ $rc -ne 0 ]; then
		tail -n 15 "$log" | sed 's/^/    /' >&2
		# The package that could not be had, by name.
		sed -nE -e 's/^ *E: Failed to fetch ([^ ]*\/)?([^ /]+) +(.*)/\2: \3/p' \
			-e "s/^ *E: (Unable to locate package .*|Version '.*' for '.*' was not found)/\1/p" "$log" |
			sort -u | sed 's/^/    download failed: /' >"$WEFT_CACHE/tmp/failed"
		if [ -s "$WEFT_CACHE/tmp/failed" ]; then
			cat "$WEFT_CACHE/tmp/failed" >&2
			say "    The cache is sound: run it again, or after 'make update' if the mirror has moved on."
		fi
		die "$name failed (status $rc); the whole log is $log"
	fi
	printf '%s' "$key" >"$WEFT_CACHE/tmp/stamp"
	mv "$WEFT_CACHE/tmp/stamp" "$WEFT_CACHE/stamp/$name"
	say "      done in $((SECONDS - start)) s"
}

# scratch NAME: an empty directory for a step to work in, on the cache's file system.
scratch() {
	rm -rf "$WEFT_CACHE/tmp/$1"
	mkdir -p "$WEFT_CACHE/tmp/$1"
	printf '%s' "$WEFT_CACHE/tmp/$1"
}

# publish FROM TO: put a finished directory in its place, instead of an older one.
publish() {
	if [ -e "$2" ]; then
		mv "$2" "$WEFT_CACHE/tmp/old.$$"
		mv "$1" "$2"
		rm -rf "$WEFT_CACHE/tmp/old.$$"
	else
		mkdir -p "$(dirname "$2")"
		mv "$1" "$2"
	fi
}
