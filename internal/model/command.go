package model

import (
	"encoding/json"
	"fmt"
)

// MarshalJSON writes a string for a shell line and a list for a program.
func (c Command) MarshalJSON() ([]byte, error) {
	if c.Argv != nil {
		return json.Marshal(c.Argv)
	}
	return json.Marshal(c.Shell)
}

// UnmarshalJSON reads either form.
func (c *Command) UnmarshalJSON(data []byte) error {
	*c = Command{}
	if err := json.Unmarshal(data, &c.Shell); err == nil {
		return nil
	}
	if err := json.Unmarshal(data, &c.Argv); err != nil {
		return fmt.Errorf("command: want a string (run by the shell) or a list (run without one)")
	}
	return nil
}
