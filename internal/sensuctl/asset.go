package sensuctl

import (
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// asset writes an asset with filters for the machines of each build. An import of it makes the same builds.
func (v *view) asset(m *model.Resource) (object, error) {
	a := m.Spec.(*model.AssetSpec)
	o := object{"metadata": metadata(m, sensuName(m)), "url": "", "sha512": "", "filters": []string{}, "builds": nil, "headers": nil}
	if len(a.Builds) == 1 {
		b := &a.Builds[0]
		o["url"], o["sha512"], o["filters"] = b.URL, b.SHA512, assetFilters(b)
		return o, nil
	}
	builds, most := make([]object, len(a.Builds)), 0
	for i := len(builds) - 1; i >= 0; i-- {
		b := &a.Builds[i]
		filters := assetFilters(b)
		for len(filters) < most { // Sensu takes the build with most filters, Muster the first
			filters = append(filters, "true")
		}
		most = len(filters)
		builds[i] = object{"url": b.URL, "sha512": b.SHA512, "filters": filters, "headers": nil}
	}
	o["builds"] = builds
	return o, nil
}

func assetFilters(b *model.AssetBuild) []string {
	out := []string{}
	for _, f := range [...]struct{ of, is string }{{"os", b.OS}, {"arch", b.Arch}, {"platform", b.Distribution}} {
		if f.is != "" {
			out = append(out, "entity.system."+f.of+" == '"+quoted(f.is)+"'")
		}
	}
	switch v := b.DistributionVersion; {
	case v == "":
	case strings.Trim(v, "0123456789") == "":
		out = append(out, "entity.system.platform_version.split('.')[0] == '"+v+"'")
	default:
		out = append(out, "entity.system.platform_version == '"+quoted(v)+"'")
	}
	return out
}

func quoted(text string) string { return strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) }
