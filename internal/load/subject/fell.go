package subject

import (
	"bytes"
	"os"
)

// mostSaid bounds what is quoted of a log.
const mostSaid = 200

// Fell returns how the server ended unasked, with the reason from its log; empty if it did not, even if a fault
// restarted it later.
func (s *Subject) Fell() string {
	s.mu.Lock()
	state := s.fell
	s.mu.Unlock()
	if state == "" {
		return ""
	}
	log, _ := os.ReadFile(s.Log)
	if said := lastCry(log); said != "" {
		return state + "; its log: " + said
	}
	return state
}

// lastCry returns the line of a log that tells why its process ended: the first line of the last Go stack, else the
// last line.
func lastCry(log []byte) string {
	var last, cry []byte
	for line := range bytes.Lines(log) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		last = line
		for _, begin := range [...]string{"panic: ", "fatal error: ", "SIG", "unexpected fault address", "runtime: out of memory"} {
			if bytes.HasPrefix(line, []byte(begin)) {
				cry = line
			}
		}
	}
	if cry == nil {
		cry = last
	}
	return string(bytes.ToValidUTF8(cry[:min(len(cry), mostSaid)], nil))
}
