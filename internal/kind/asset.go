package kind

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// Asset returns the kind of archives with programs.
func Asset() Kind {
	return Define(func() *model.AssetSpec { return &model.AssetSpec{} }, Definition[*model.AssetSpec]{
		KindInfo: model.KindInfo{Name: "Asset", Plural: "assets", Short: "as", Namespaced: true},
		Users:    true,
		Example: `kind: Asset
metadata: {name: check-plugins}
spec:
  builds:
    - os: linux
      arch: amd64
      url: https://files.example.org/check-plugins.tar.gz
      sha512: ` + strings.Repeat("0123456789abcdef", 8) + `
`,
		Validate: func(v *Validator, _ *model.Resource, s *model.AssetSpec) { validateAsset(v, s) },
		Redact: func(s *model.AssetSpec) *model.AssetSpec {
			out := *s
			out.Builds = slices.Clone(s.Builds)
			for i := range out.Builds {
				out.Builds[i].URL = model.RedactQuery(out.Builds[i].URL)
			}
			return &out
		},
		Columns: []Column[*model.AssetSpec]{
			usersColumn[*model.AssetSpec](),
			{"FOR", 80, func(_ View, s *model.AssetSpec) string {
				list := make([]string, len(s.Builds))
				for i := range s.Builds {
					list[i] = s.Builds[i].Platform()
				}
				return strings.Join(list, ", ")
			}},
		},
		Details: func(_ View, s *model.AssetSpec) (list []Detail) {
			for i := range s.Builds {
				list = append(list, Detail{"for", s.Builds[i].Platform()}, Detail{"  sha512", s.Builds[i].SHA512})
				if s.Builds[i].URL != "" {
					list = append(list, Detail{"  url", s.Builds[i].URL})
				}
			}
			return list
		},
		Effect: usersEffect[*model.AssetSpec],
	})
}

func validateAsset(v *Validator, s *model.AssetSpec) {
	if len(s.Builds) == 0 {
		v.Missing("spec.builds", "muster asset add NAME FILE --os linux --arch amd64 uploads one and writes it", "has no archive")
	}
	if len(s.Builds) > model.MaxBuilds {
		v.Flaw("spec.builds", "", "more than %d", model.MaxBuilds)
		return
	}
	before := map[string]int{}
	for i := range s.Builds {
		b, at := &s.Builds[i], fmt.Sprintf("spec.builds[%d]", i)
		if b.SHA512 == "" {
			v.Missing(at+".sha512", "sha512sum FILE", "missing")
		} else if _, err := model.ParseAssetSum(b.SHA512); err != nil {
			v.Flaw(at+".sha512", "sha512sum FILE", "want 128 of 0-9 and a-f")
		}
		if u, err := url.Parse(b.URL); b.URL != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || len(b.URL) > maxLine) {
			v.Flaw(at+".url", "write https://…", "want the address of the archive")
		}
		if u, err := url.Parse(b.URL); err == nil && u.User != nil {
			v.Flaw(at+".url", "fetch it yourself, and type muster asset add NAME FILE", "no password may stand here: whoever may look sees it")
		}
		v.unredacted(at+".url", b.URL)
		for _, f := range []struct{ field, text string }{{"os", b.OS}, {"arch", b.Arch}, {"distribution", b.Distribution}, {"distributionVersion", b.DistributionVersion}} {
			if len(f.text) > model.MaxText || model.HasControl(f.text) || strings.ContainsAny(f.text, " \t") {
				v.Flaw(at+"."+f.field, "muster describe node NODE shows the facts", "want one word")
			}
		}
		if first, twice := before[b.Platform()]; twice {
			v.Flaw(at, "say which machines it is for: os, arch, distribution, distributionVersion", "is never used: builds[%d] is for the same (%s)", first, b.Platform())
		} else {
			before[b.Platform()] = i
		}
	}
}
