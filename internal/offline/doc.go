// Package offline holds the commands that work on the data folder of a server instead of its API:
// doctor repair, doctor restored, auth reset-password. All but the last need a stopped server; the
// last leaves a request in the folder for a running server (PasswordRequests).
//
// Start reading at repair_data_folder.go.
package offline
