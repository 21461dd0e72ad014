// Package window says when: spans of local time in one zone, such as every night, every
// weekend, three hours after a cron tick, or from one date to another. It reads no clock:
// the same instant gives the same answer, on an agent and on the server.
//
// On the two nights of the year when clocks change, a span begins with the first instant
// whose wall clock has reached its beginning, and ends with the last one that has not
// reached its end: 02:00-03:00 has no length in the night that skips that hour, and lasts
// two hours in the night that has it twice. A cron tick that is skipped is at the instant of the
// change, one that comes twice at the first; from there its span is as long as it says. Start reading at calendar.go.
package window
