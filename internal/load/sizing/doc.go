// Package sizing says what machine a fleet needs. Sentence and Table are the answer of
// `muster load size`: what this machine carries of a scenario, what that uses, and what breaks
// first. Page is docs/sizing.md, made of the reports in bench/results.
//
// It reads reports and writes words: no goroutine, no lock, no clock. Start at sentence.go.
package sizing
