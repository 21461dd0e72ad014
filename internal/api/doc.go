// Package api is the HTTP face of the server: resources, events, problems, status,
// users, under /api/v1, described by an OpenAPI page that is generated from the
// types in api/v1. It keeps no state but the login limiter: everything comes from
// the intent service, the event view, the planner's directory and the history.
//
// A request passes log and metrics (log.go), authentication
// (auth.go) and then one handler. Errors get their form in errors.go and nowhere
// else. Admin (admin.go) is the other listener, for machines of the operator.
// Goroutines: none but those of watches and of what is done to many events (bulk.go), which end
// with their request. Locks: one each in what limits logins and watches and in what was left of
// many events, held for a look at a map.
// Start reading at api.go.
package api
