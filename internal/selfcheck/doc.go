// Package selfcheck keeps the built-in events: journal, history, streams and sessions of the server,
// and of nodes identity (a second machine has the node's identity) and limits (a namespace's limit was
// met). It also decides when so many nodes fall silent at once that messages about each are held back.
//
// In come measurements of the server (Options) and reports of other packages (ReportSessionLoss, ReportSilentNodes,
// ReportClone, ReportLostResults), which never block. Out go results that Options.Record writes. Monitor.Run starts two
// goroutines, for events of the server and of nodes; each owns its events alone. Start reading at mass_outage_monitor.go.
package selfcheck
