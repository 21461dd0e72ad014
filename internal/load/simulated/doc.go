// Package simulated is the simulated machines as a server knows them: their names, ids and
// labels, the proxy nodes and checks of a scenario, and the certificates by which they are
// told apart. All of it follows from the scenario and its seed, so that who prepares a server
// and who plays against it need no file between them.
//
//	members.go      the machines, proxy nodes and resources of a scenario
//	apply.go        declares and deletes resources, and reads events, by the API
//	certificate.go  a machine's key and certificate
//
// Goroutines, locks: none. Start reading at members.go.
package simulated
