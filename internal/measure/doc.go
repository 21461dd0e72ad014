// Package measure parses the metrics in a check's output, one file per format, and compares
// them with the check's thresholds (threshold.go). It skips and counts lines of other form,
// because plug-ins print text for people beside their numbers; NaN and infinity are skipped
// too. Agents do both for their checks, the server for checks of Sensu's agents. In: output
// and thresholds. Out: values, status and messages. Pure functions: no goroutines, no locks.
// Start reading at parse.go.
package measure
