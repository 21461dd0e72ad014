package intent

import "strings"

// String is how people see a key: check/disk, or check/shared/disk outside the
// default namespace.
func (k Key) String() string {
	text := strings.ToLower(k.Kind) + "/"
	if k.Namespace != "" && k.Namespace != "default" {
		text += k.Namespace + "/"
	}
	return text + k.Name
}
