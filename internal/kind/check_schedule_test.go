package kind

import (
	"strings"
	"testing"
)

// A cron expression that is none says which field is wrong.
func TestWrongCron(t *testing.T) {
	for cron, want := range map[string]string{
		"61 * * * *":   `: "61" is no minute`,
		"0 25 * * *":   `: "25" is no hour`,
		"0 0 32 * *":   `: "32" is no day of the month`,
		"0 0 * JANU *": `: "JANU" is no month`,
		"0 0 * * 9":    `: "9" is no weekday`,
	} {
		if text, hint := wrongCron(strings.Fields(cron)); text != want || hint == "" {
			t.Errorf("%s: %q, %q", cron, text, hint)
		}
	}
}
