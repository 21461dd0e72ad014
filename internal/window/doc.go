// Package window computes calendars: spans of local time in one zone, such as every night,
// every weekend, three hours after a cron tick, or from one date to another. In: spans and an
// instant. Out: whether a span is active, until when, and when the next one begins. Pure
// functions: no clock, no goroutines, no locks, so agent and server compute the same answer.
//
// On the two nights of the year when clocks change, a span begins with the first instant
// whose wall clock has reached its beginning, and ends with the last one that has not
// reached its end: 02:00-03:00 has no length in the night that skips that hour, and lasts
// two hours in the night that repeats it. A skipped cron tick is at the instant of the change,
// a repeated one at its first instant; its span has the declared length from there.
//
// Start reading at calendar.go.
package window
