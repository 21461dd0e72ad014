// Package datadir knows the data folder of a server: its lock, its owner, the folders in it, and the
// hints for errors of its file system. The server and the commands that work on a stopped server's
// folder share it. Start at lock.go.
package datadir
