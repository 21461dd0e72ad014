// Package screen writes for people and programs: tables and fields cut or wrapped to the terminal,
// colours, JSON and YAML. Text of others never reaches a terminal raw: Printf, Field and tables clean
// every string that they get. It has no goroutine and no lock. Start reading at screen.go and table.go.
package screen
