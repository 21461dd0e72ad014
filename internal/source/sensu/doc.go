// Package sensu is the way in for agents of Sensu Go 6, unchanged: the server's side of
// their protocol (internal/sensuwire has its messages, docs/sensu.md the manual).
//
// An agent's connection comes in by a listener of its own (muster.Door), says in the headers
// of its handshake who it is (login.go), and becomes a session (session.go). With its first
// keepalive it becomes the session of a node (begin.go), which is made where there is none.
// What the node's assignment names is asked for by the server's own timetable (jobs.go,
// timetable.go), with the offsets that our agents keep, but that an agent's runs share times as
// far as they can (together.go): a system call and a wake-up for each message are what a run costs. Writers
// send it (outbox.go), many requests by one write. What came by one read becomes signals of
// one entry in the journal (result.go), in a stream that the server numbers: the protocol has
// no acknowledgements, so that nothing is ever sent twice. What lies beside an output (beside.go:
// hooks; measured.go: values, and events that have nothing else) is made what our own agents
// would have made of it. A run by hand is a request like any, whose result somebody waits for
// (runs.go). What a connection's certificate proves of its agent is in proof.go; only who is proven is
// asked for checks with secrets, which are found anew for each run (secrets.go) and hidden in what
// comes back (given.go). What nobody asked for is of a passive check (unasked.go), which may be
// made for it (passive.go). On the same listener agents fetch archives of assets (assets.go).
//
// Goroutines: one reader per connection, also of one that fetches; the timetable; a few writers, and one more for each
// peer that does not read; one for each run whose secrets are looked for; one housekeeper. Locks, in order: the registry, then a session's
// planning, then its appending, then its mu; the timetable's and that of what a node was given stand alone, and so does making's, under which intent
// is changed. Start reading at login.go, then session.go.
package sensu
