// Package offline holds the commands that work on the data folder of a server instead of asking its
// API: doctor repair, doctor restored, auth reset-password. All but the last need a stopped server;
// the last leaves a request in the folder that a running server takes (PasswordRequests).
//
// Start reading at repair.go.
package offline
