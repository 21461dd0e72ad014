// Package folder keeps what a run shows in one folder, for people and for other programs:
//
//	run.json        the whole report (report.Report)
//	report.html     the same to look at
//	observed.jsonl  the observation log, written during the run
//	server.log      of the server under test
//	profiles/       of the server, for go tool pprof
//
// A Folder belongs to one goroutine. Locks: none. Start reading at folder.go.
package folder
