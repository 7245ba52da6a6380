# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Completion of weftctl(8) for bash.

_weftctl() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command='' word i
	local common='--port --json --quiet --help --version'

	for ((i = 1; i < COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		case $word in
		list | show | send | recv | ping | wait)
			# Not if it is the value of --port.
			[ "${COMP_WORDS[i - 1]}" = --port ] || { command=$word; break; }
			;;
		esac
	done

	COMPREPLY=()
	case $prev in
	--port)
		mapfile -t COMPREPLY < <(compgen -G "${cur:-/dev/weft}*" | grep '^/dev/weft[0-9]')
		return
		;;
	--state)
		mapfile -t COMPREPLY < <(compgen -W 'down hello ready' -- "$cur")
		return
		;;
	--dir)
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -d -- "$cur")
		return
		;;
	--to | --peer | --link | --service | --timeout | --count | --size | --interval)
		return
		;;
	esac

	local options=''
	case $command in
	'') options='list show send recv ping wait' ;;
	send) options='--to --peer --link --service --timeout' ;;
	recv) options='--dir --output --service --once --count --timeout --force' ;;
	ping) options='--to --peer --link --service --count --size --interval --timeout --serve --once' ;;
	wait) options='--link --state --timeout' ;;
	esac

	if [ -z "$command" ] || [[ $cur == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$options $common" -- "$cur")
		return
	fi
	case $command in
	show) mapfile -t COMPREPLY < <(compgen -G "${cur:-/dev/weft}*" | grep '^/dev/weft[0-9]') ;;
	send | recv)
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		;;
	esac
}
complete -F _weftctl weftctl
