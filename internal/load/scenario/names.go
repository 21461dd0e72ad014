package scenario

import "fmt"

// Names are how the checks are called within their class: NAME, or NAME-000 and up where
// there are many.
func (c *Check) Names() []string {
	if c.Count <= 1 {
		return []string{c.Name}
	}
	names := make([]string, c.Count)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%03d", c.Name, i)
	}
	return names
}
