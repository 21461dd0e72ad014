// Package sensuctl answers an unmodified sensuctl of Sensu Go 6, as a Sensu backend would.
//
// A request is taken apart (path.go), and becomes requests of the API in the same process, with
// the caller's own token: who may do what, how many passwords may be tried and how many requests
// are answered at once is looked at there and nowhere else (client.Inside). What the API answers
// is written in Sensu's shapes (check.go, entity.go, entityv3.go, event.go, silence.go, kept.go); what is
// declared goes through sensuimport (put.go), unless it is what was shown (unchanged.go). What sensuctl can ask and Muster has another
// command for is answered 501 with that command (instead.go).
//
// No goroutines, no locks. Start reading at Server.ServeHTTP in serve.go.
package sensuctl
