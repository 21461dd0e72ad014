// Package measure finds the numbers in what a check says, in each of the forms that plug-ins
// print: one file per form. What is not of the form is passed over and counted, because
// plug-ins print text for people beside their numbers; NaN and infinite values are no
// numbers. It holds them to the check's thresholds, too (threshold.go). Agents do both for
// their checks, and the server for those of Sensu's agents. It is pure. Start reading at
// parse.go.
package measure
