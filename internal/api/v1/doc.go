// Package v1 has the types of the API's requests and answers. The OpenAPI document is generated
// from them, and the Go client uses them. It imports no engine of the server, so that the command
// line builds everywhere. Start reading at resource.go and event.go.
package v1
