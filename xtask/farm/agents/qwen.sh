# Qwen Code. OpenAI chat API.

C="node $A/node_modules/@qwen-code/qwen-code/cli.js"
setup() {
    export OPENAI_API_KEY=k OPENAI_BASE_URL=$MOCK/v1 OPENAI_MODEL=qwen3-coder-plus
    mkdir -p "$HOME/.qwen"
    cat > "$HOME/.qwen/settings.json" <<'T'
{"security":{"auth":{"selectedType":"openai"},"folderTrust":{"enabled":false}},
 "privacy":{"usageStatisticsEnabled":false},
 "general":{"disableAutoUpdate":true,"enableAutoUpdate":false}}
T
}
ask() { say "$1"; go $C --auth-type openai --yolo "${@:2}" -p "$1"; }
more() { ask "$1" --continue; }
fork() { ask "$1" --continue --fork-session; }
compact() { terminal "$C --auth-type openai --yolo --continue" settle:90 command:/compress settle:30 command:/quit wait:3; }
rename() {
    terminal "$C --auth-type openai --yolo --continue" settle:90 "command:/rename $1" settle:20 command:/quit wait:3
    fact title "$1"
}
