// Package cli is the command line. A command is a value of type command, which names its flags and a
// function on commandCall; commandLine holds server, namespace and client; package screen writes tables, fields,
// JSON and YAML. The columns and details of resources come from the kind registry. The package keeps no
// state but the context file, and Env is its only way to the machine, so tests run all of it in process.
// It has no lock. Only a debug bundle starts goroutines: one for each part, with a time-out.
//
// Commands that need the server's engines (up, server, load) come from cmd/muster as values of ExtraCommand.
// Start reading at main.go, then command_builder.go and get.go.
package cli
