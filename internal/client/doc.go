// Package client calls the API of a server. Operations stand by subject in the fields of Client
// (Events, Resources, Nodes …); every error has the class that the server gave it. The package also
// reads and writes the context file, which holds the address of the server, its CA and the session.
//
// It has no locks and no goroutine. Start reading at client.go, then request.go and context.go.
package client
