package model

import "strings"

// Status is the result of a check: a plug-in's exit code by the Nagios convention.
type Status uint8

const (
	OK Status = iota
	Warning
	Critical
	Unknown
)

var statusNames = [...]string{"OK", "WARNING", "CRITICAL", "UNKNOWN"}

func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return "INVALID"
}

// ParseStatus reads a name ("critical", any case) or a digit 0–3.
func ParseStatus(text string) (Status, bool) {
	for i, name := range statusNames {
		if equalFold(text, name) || (len(text) == 1 && int(text[0]-'0') == i) {
			return Status(i), true
		}
	}
	return 0, false
}

func equalFold(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if a[i]|0x20 != b[i]|0x20 {
			return false
		}
	}
	return true
}

// Severity is how bad a status is for people, on one scale for all problem sources.
type Severity uint8

const (
	NotClassified Severity = iota
	Information
	SeverityWarning
	Average
	High
	Disaster
)

var severityNames = [...]string{"not classified", "information", "warning", "average", "high", "disaster"}

func (s Severity) String() string {
	if int(s) < len(severityNames) {
		return severityNames[s]
	}
	return "invalid"
}

// DefaultSeverity returns the severity of a status for checks that do not set one.
func DefaultSeverity(s Status) Severity {
	switch s {
	case Warning:
		return SeverityWarning
	case Critical:
		return High
	case Unknown:
		return Average
	}
	return NotClassified
}

// ParseSeverity reads a name in any case.
func ParseSeverity(text string) (Severity, bool) {
	for i, name := range severityNames {
		if strings.EqualFold(text, name) {
			return Severity(i), true
		}
	}
	return 0, false
}

// SeverityNames lists the names of all severities, the lowest first.
func SeverityNames() []string { return severityNames[:] }
