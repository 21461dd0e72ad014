// Package sensu is the source for unmodified agents of Sensu Go 6: the server's side of their protocol. Package sensuwire
// has its messages, docs/sensu.md the manual.
//
// In: connections of a listener of its own (admission.Serve). The handshake's headers name and authenticate the agent
// (handshake.go). The first message makes the connection the session of a node (agent_registration.go), which is
// created if there is none. Events become signals of one journal entry per read (event_to_result.go, event_metrics_and_hooks.go), in a
// stream that the server numbers: the protocol has no acknowledgements, so nothing is sent twice. An event of a check that
// no assignment names belongs to a passive check (passive_check_events.go).
//
// Out: requests for runs. The server keeps the timetable (check_timetable.go) of all jobs (prepare_check_requests.go), with the slots that
// muster-agent would use, except that runs of one agent share slots (check_timetable.go): system calls and wake-ups are most of a
// run's cost. Writers send all due requests of a session in one write (session.go). People request runs (adhoc_runs.go). Checks with
// secrets are sent to agents with a proven identity only; the values are found for each run (check_secrets.go) and redacted in
// its output (check_secrets.go). Agents fetch archives of assets on the same listener (serve_asset_archives.go).
//
// Goroutines: the timetable, and one per run whose secrets are looked up; readers, writers and the clock are package
// core's. Locks, in order: registry, then a session's planning, its append lock, its Mu. The locks of timetable and
// sentSecrets are independent; checkCreator's is held while intent changes. Start reading at handshake.go, then session.go.
package sensu
