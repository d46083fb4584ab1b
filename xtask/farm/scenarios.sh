# The scenarios, the same for every agent. The commands are those of agents/<agent>.sh:
#
#   ask TEXT      one prompt in a new session
#   more TEXT     one prompt in the session of the last prompt
#   fork TEXT     one prompt in a fork of that session
#   compact       compacts that session
#   rename TITLE  gives that session a title

# needs SCENARIO: prints the commands without which an agent cannot play a scenario.
needs() {
    case $1 in
        tools | sub-agent) echo ask ;;
        resume) echo ask more ;;
        fork) echo ask fork ;;
        compact) echo ask more compact ;;
        rename) echo ask rename ;;
    esac
}
scenario_tools() {
    ask "Please look around and tidy up. @@plan shell;write+read;todo;fail;grep"
}
scenario_sub_agent() {
    ask "Please let a sub-agent check this. @@plan $SUB_AGENT_PLAN"
}
scenario_resume() {
    ask "The first prompt of a session. @@plan shell"
    more "The second prompt, after a resume. @@plan fail"
    more "The third prompt, after another resume. @@plan none"
}
scenario_fork() {
    ask "The first prompt, before a fork. @@plan shell;fail"
    fork "The second prompt, in the fork. @@plan write"
}
scenario_compact() {
    ask "The first prompt, before a compaction. @@plan shell"
    more "The second prompt, before a compaction. @@plan read"
    compact
    more "The third prompt, after a compaction. @@plan fail"
}
scenario_rename() {
    ask "A prompt in a session without a title. @@plan shell"
    rename "Shiny chosen title"
}
