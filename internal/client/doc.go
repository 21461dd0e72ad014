// Package client speaks to the API: one method per operation, errors with the class
// that the server gave them. It also reads and writes the context file that tells
// where the server is. It starts no goroutine but in Watch. Start reading at
// client.go, then context.go.
package client
