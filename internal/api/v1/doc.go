// Package v1 holds what travels between the API and its callers: the server's
// OpenAPI page is generated from these types, and the Go client uses the same. It
// imports no engine of the server, so that the command line builds everywhere.
// Start reading at resource.go and event.go.
package v1
