# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Completion of weftctl(8), weft-fabric(8) and weft-run(1) for bash. What there is to offer, the
# programs' own help says: nothing here has to know it. See weft.zsh and weft.fish.

# _weft_help COMMAND...: a line each for a subcommand (c NAME), an option (o --NAME
# [VALUE [WORD...]]) and an argument (a VALUE [WORD...]); WORDs are all it can be.
_weft_help() {
	COLUMNS=1000 "$@" -h 2>/dev/null | awk '
		function words(line) {
			if (!match(line, /\[possible values: [^]]*\]/)) return ""
			line = substr(line, RSTART + 18, RLENGTH - 19)
			gsub(/,/, "", line)
			return " " line
		}
		/^[A-Z][a-z]+:/ { section = $1 }
		section == "Commands:" && /^  [a-z]/ { print "c", $1 }
		section == "Options:" && match($0, /--[a-z-]+( \[?<[A-Z_]+>)?/) {
			option = substr($0, RSTART, RLENGTH)
			gsub(/[[<>]/, "", option)
			print "o", option words($0)
		}
		section == "Arguments:" && match($0, /^  [[<][A-Z_]+/) {
			print "a", substr($0, 4, RLENGTH - 3) words($0)
		}'
}

# _weft_named BEHIND COMMAND: what of the topology's is followed by this, in its status. With
# dir as _weft_values has it.
_weft_named() {
	"$2" "${dir[@]}" --json status 2>/dev/null | grep -o '"name":"[^"]*"'"$1" | cut -d'"' -f4
}

# _weft_values COMMAND VALUE: what a value of that name can be on this machine.
_weft_values() {
	local dir=() i
	for ((i = 1; i < COMP_CWORD; i++)); do
		[ "${COMP_WORDS[i - 1]}" != --dir ] || dir=(--dir "${COMP_WORDS[i]}")
	done
	case ${1##*/}:$2 in
	*:PORT) compgen -G '/dev/weft[0-9]*' ;;
	# Hosts, endpoints and switches; the first two; the last.
	weft-fabric:NODE) _weft_named '' "$@" ;;
	weft-fabric:NODES) _weft_named ',"plugged"' "$@" ;;
	weft-fabric:SWITCH) _weft_named ',"ports"' "$@" ;;
	weft-fabric:HOST) "$1" "${dir[@]}" host list 2>/dev/null | awk 'NR > 1 { print $1 }' ;;
	# What the master calls them; elsewhere hardware ids.
	*:ENDPOINT | *:HOST)
		"$1" --json tree 2>/dev/null |
			grep -o '"name":"[^"]*","hwid":"[^"]*","lid":[0-9]*,"kind":"'"${2,,}"'"' | cut -d'"' -f4
		;;
	*:END) "$1" "${dir[@]}" --json status 2>/dev/null | grep -o '"[^" ]*:[0-9][0-9]*"' | tr -d '"' | sort -u ;;
	esac
}

# _weft_program HELP: of weft-run, where the program that it is to run is in COMP_WORDS; 0: that has still to come.
_weft_program() {
	local i
	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		# The value of an option: a word of its own, to bash also behind a sign of equality.
		=) i=$((i + 1)) ;;
		-*) ! grep -q "^o ${COMP_WORDS[i]} ." <<<"$1" || i=$((i + 1)) ;;
		*) echo "$i" && return ;;
		esac
	done
	echo 0
}

_weft() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
	local command=("${COMP_WORDS[0]}") kind name value words i
	local commands='' options='' arguments='' wanted='' takes=''

	# Which subcommand this is: what its parent's help calls one.
	local help
	help=$(_weft_help "${command[@]}")
	if [ "${command[0]##*/}" = weft-run ]; then
		i=$(_weft_program "$help")
		if [ "$i" != 0 ]; then
			# As if it stood alone, if bash-completion is there.
			_command_offset "$i" 2>/dev/null || mapfile -t COMPREPLY < <(compgen -f -- "$cur")
			return
		fi
	fi
	for ((i = 1; i < COMP_CWORD; i++)); do
		if grep -qxF "c ${COMP_WORDS[i]}" <<<"$help"; then
			command+=("${COMP_WORDS[i]}")
			help=$(_weft_help "${command[@]}")
		fi
	done

	while read -r kind name value words; do
		case $kind in
		c) commands+=" $name" ;;
		o)
			options+=" $name"
			[ "$name" != "$prev" ] || { wanted=$value takes=$words; }
			;;
		# Here the name is the value's, and what follows are the words.
		a) arguments+=" $name $value $words" ;;
		esac
	done <<<"$help"

	COMPREPLY=()
	if [ -z "$wanted" ]; then
		if [[ $cur == -* ]]; then
			mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
			return
		fi
		wanted=$arguments takes=$commands
	fi
	for name in $wanted; do
		case $name in
		FILE | TOPOLOGY) compopt -o filenames && mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "$cur") ;;
		PROGRAM) mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -c -- "$cur") ;;
		DIR) compopt -o filenames && mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -d -- "$cur") ;;
		*[A-Z]) takes+=" $(_weft_values "${COMP_WORDS[0]}" "$name")" ;;
		*) takes+=" $name" ;;
		esac
	done 2>/dev/null
	mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -W "$takes" -- "$cur")
}
complete -F _weft weftctl weft-fabric weft-run
# A colon is part of an END.
COMP_WORDBREAKS=${COMP_WORDBREAKS//:/}
