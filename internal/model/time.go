package model

import (
	"encoding/json"
	"time"
)

// Time is an instant in a file.
type Time struct{ time.Time }

// UnmarshalJSON reads RFC 3339, also with a space in place of the T and without seconds. An offset is required.
func (t *Time) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		for _, form := range []string{time.RFC3339, "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04Z07:00", "2006-01-02 15:04Z07:00"} {
			if at, err := time.Parse(form, text); err == nil {
				*t = Time{at.UTC()}
				return nil
			}
		}
	}
	return Errorf(Invalid, "%s is no time: write 2026-12-24T18:00:00Z, or with an offset 2026-12-24T19:00:00+01:00", data)
}
