// Package serverlog writes the server's log, reopens its file for logrotate, and keeps the last lines
// for the support bundle. One mutex covers the file and those lines. Start at log.go.
package serverlog
