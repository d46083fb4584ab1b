# GitHub Copilot CLI, with a provider of one's own (no account). OpenAI chat API.

C=$A/node_modules/@github/copilot-linux-x64/copilot
setup() {
    export COPILOT_PROVIDER_TYPE=openai COPILOT_PROVIDER_BASE_URL=$MOCK/v1 \
        COPILOT_PROVIDER_API_KEY=k COPILOT_MODEL=gpt-5.5 COPILOT_OFFLINE=true \
        COPILOT_AUTO_UPDATE=false
}
ask() { say "$1"; go "$C" "${@:2}" -p "$1" --allow-all-tools --allow-all-paths; }
more() { ask "$1" --continue; }
# in_terminal STEP...: goes on in a terminal; ENTER answers the question whether the folder is trusted.
in_terminal() {
    terminal "$C --continue --allow-all-tools --allow-all-paths" settle:90 ENTER settle:20 "$@" \
        command:/exit wait:3
}
compact() { in_terminal command:/compact settle:30; }
rename() {
    in_terminal "command:/rename $1" settle:20
    fact title "$1"
}
