package zabbiximport

import (
	"bytes"
	"strings"

	"github.com/muster-fleet/muster/internal/conversion"
	"github.com/muster-fleet/muster/internal/model"
)

// readExport reads an export file of Zabbix in YAML or JSON. It returns the mapping zabbix_export of the file.
func readExport(f conversion.File) (*conversion.Mapping, error) {
	line := 1
	if !bytes.HasPrefix(bytes.TrimSpace(f.Data), []byte("<")) { // XML
		documents, err := conversion.ReadMappings(f)
		if err != nil {
			return nil, err
		}
		if export := documents[0].Child("zabbix_export"); export != nil {
			return export, nil
		}
		line = documents[0].Line()
	}
	return nil, model.Errorf(model.Invalid, "%s:%d: not an export of Zabbix: zabbix_export is missing", f.Name, line).
		WithHint("export the templates as YAML: Data collection → Templates → Export; XML is not supported")
}

// enumField returns a field's text in capital letters, or a default for an absent field. If the field is
// absent, it returns a default.
func enumField(e *conversion.Mapping, name, deflt string) string {
	if text := e.TextOf(name); text != "" {
		return strings.ToUpper(text)
	}
	return deflt
}
