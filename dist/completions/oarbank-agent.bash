# bash completion of oarbank-agent(8). Commands and options are asked of the program, so that they are never out of step.

_oarbank_agent() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} at help
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        help=$("$1" --help 2>/dev/null | sed -n 's/^  \(sandbox-[a-z]*\) .*/\1/p')
        mapfile -t COMPREPLY < <(compgen -W "$help --help --version" -- "$current")
        return
    fi
    for ((at = 2; at < COMP_CWORD; at++)); do
        if [[ ${COMP_WORDS[at]} == -- ]]; then
            # The program, by its whole path, and what it is given.
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
            return
        fi
    done
    help=$("$1" "$command" --help 2>/dev/null)
    if [[ $previous == --cgroup ]]; then
        mapfile -t COMPREPLY < <(compgen -W 'auto none' -- "$current"; compgen -d -- "$current")
    elif [[ $previous == --* ]] && grep -q -e "^  $previous [A-Z]" <<<"$help"; then
        :   # A number.
    elif [[ $current == -* ]]; then
        help=$(sed -n 's/^  \(--[a-z-]*\) .*/\1/p' <<<"$help")
        mapfile -t COMPREPLY < <(compgen -W "$help --help --version" -- "$current" | sort -u)
    elif [[ $command == sandbox-verify ]]; then
        mapfile -t COMPREPLY < <(cd /proc && compgen -G "${current//[^0-9]/}*" | grep -x '[0-9]*')
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
    fi
}
complete -o filenames -F _oarbank_agent oarbank-agent
