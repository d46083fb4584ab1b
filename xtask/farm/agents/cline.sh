# Cline CLI; needs Node 24. OpenAI chat API.

C=$A/node_modules/.bin/cline
setup() {
    export PATH=$(dirname "$NODE24"):$PATH CLINE_TELEMETRY_DISABLED=1 DO_NOT_TRACK=1
    go "$C" auth -p openai -k kk -m mock-1 -b $MOCK/v1
}
ask() { say "$1"; go "$C" -P openai -m mock-1 "${@:2}" --json "$1"; }
# `--id` with a prompt asks the model nothing: a resume cannot be recorded.
