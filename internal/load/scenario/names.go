package scenario

import (
	"fmt"
	"maps"
)

// NodeName is the name of a class's agent i: web-00007.
func NodeName(class string, i int) string { return fmt.Sprintf("%s-%05d", class, i) }

// Names are how the checks are called within their class: NAME, or NAME-000 and up
// where there are many.
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

// CheckName is the name of the resource that makes a class's agents run a check of it:
// web-disk, web-app-007.
func CheckName(class, check string) string { return class + "-" + check }

// LabelsOf are those of a class's agent i: its class, forty to a rack, eight sites in turn,
// and what the class says.
func (c *Class) LabelsOf(i int) map[string]string {
	labels := map[string]string{"rack": fmt.Sprintf("r%04d", i/40), "site": fmt.Sprintf("s%d", i%8)}
	maps.Copy(labels, c.Labels)
	labels["class"] = c.Name
	return labels
}
