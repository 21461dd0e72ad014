package collect

import "strings"

// unescapeMount returns the path of a mount without the escapes of /proc/mounts.
var unescapeMount = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// mounts returns the mounted file systems, in the order of /proc/mounts.
func (m *machine) mounts() (list []mount, err error) {
	text, err := m.read("/proc/mounts")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) >= 4 {
			list = append(list, mount{unescapeMount.Replace(f[1]), f[2], f[3]})
		}
	}
	return list, nil
}
