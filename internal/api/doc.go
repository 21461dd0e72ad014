// Package api is the HTTP face of the server: resources, events, problems, status,
// users, under /api/v1, described by an OpenAPI page that is generated from the
// types in api/v1. It keeps no state but the login limiter: everything comes from
// the intent service, the event view, the planner's directory and the history.
//
// A request passes log and metrics (log.go), authentication
// (auth.go) and then one handler. Errors get their form in errors.go and nowhere
// else. Admin (admin.go) is the other listener, for machines of the operator.
// Every operation declares the access that it needs (api.go:handle). A subject that is bound to
// namespaces gets a server that knows these alone (scope.go): handlers cannot forget it.
//
// Goroutines: those of watches and of bulk actions (bulkevents.go), which end with their request.
// Locks: one each in the limits of logins and watches and in the remainder of a bulk action, held
// for a look at a map.
// Start reading at api.go.
package api
