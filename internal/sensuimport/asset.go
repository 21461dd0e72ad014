package sensuimport

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// build is one archive of Sensu's and the machines that it is for.
type build struct {
	at       string // builds[2]; empty: the asset is one archive itself
	spec     *fields
	filters  []string
	archive  model.AssetBuild
	machines []model.AssetBuild // its conditions, one after the other; none: it is for no machine
}

// importAsset keeps archives with the machines that they are for. Sensu takes, of all builds that fit,
// the first of those with the most filters; the first that fits is taken here, so that is how
// they are put in order.
func importAsset(o *object) {
	var builds []build
	if list := o.spec.objects("builds"); len(list) > 0 {
		for i, s := range list {
			builds = append(builds, build{at: fmt.Sprintf("builds[%d]: ", i), spec: s})
		}
		for _, unused := range []string{"url", "sha512", "filters", "headers"} {
			if !isEmpty(o.spec.value(unused)) {
				o.noteChange("%s beside builds: Sensu does not use it either", unused)
			}
		}
	} else {
		builds = []build{{spec: o.spec}}
	}
	var good []build
	for _, b := range builds {
		if readBuild(o, &b) {
			good = append(good, b)
		}
	}
	slices.SortStableFunc(good, func(a, b build) int { return cmp.Compare(len(b.filters), len(a.filters)) })
	spec := &model.AssetSpec{}
	for i := range good {
		addBuilds(o, spec, &good[i])
	}
	if len(spec.Builds) == 0 {
		o.noteLoss("no archive of it was carried: muster asset add NAME --url URL --sha512 SUM")
		return
	}
	if spec.Builds[len(spec.Builds)-1].Platform() != (&model.AssetBuild{}).Platform() {
		o.noteChange("where none of its builds fits, Sensu runs the command without it; here the check is UNKNOWN there, with the reason")
	}
	if ours, theirs := assetVariable(name(o.name)), strings.ToUpper(keyOfSensu.ReplaceAllString(o.name, "_"))+"_PATH"; ours != theirs {
		o.noteChange("where it lies is in the variable %s, in Sensu in %s", ours, theirs)
	}
	o.declare(spec)
}

// readBuild reads one archive; false: it is left out, and that was said.
func readBuild(o *object, b *build) bool {
	b.filters = b.spec.texts("filters")
	sum := strings.ToLower(b.spec.text("sha512"))
	headers := b.spec.labels("headers")
	address := b.spec.text("url")
	if _, err := model.ParseAssetSum(sum); err != nil {
		o.noteLoss("%ssha512: it is no SHA-512, 128 of 0-9 and a-f: the archive is left out", b.at)
		return false
	}
	b.archive = model.AssetBuild{SHA512: sum, URL: assetURL(o, b.at, address, headers)}
	list, wider, err := machinesOf(b.filters)
	if err != nil {
		o.noteLoss("%sfilters: %v: the archive is left out, and its machines take another that fits; muster asset add %s --url URL --sha512 SUM with --os, --arch, --distribution, --distribution-version adds it", b.at, err, name(o.name))
		return false
	}
	for _, version := range wider {
		o.noteChange("%splatform_version == %q is distributionVersion: %s, which is also %s.1", b.at, version, version, version)
	}
	b.machines = list
	return true
}

// assetURL returns the address from which the server may fetch the archive; empty: somebody has to upload it. Notes hold
// no passwords.
func assetURL(o *object, at, text string, headers map[string]string) string {
	upload := "fetch the archive yourself, and type muster asset add " + name(o.name) + " FILE"
	u, err := url.Parse(text)
	switch {
	case text == "":
		o.noteChange("%sno url: the archive has to be uploaded: muster asset add %s FILE", at, name(o.name))
		return ""
	case strings.Contains(text, "{{"):
		o.noteLoss("%surl: the server fetches one archive for all, and an address has no tokens: %s", at, upload)
		return ""
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "":
		o.noteLoss("%surl: the server fetches by https and http only: %s", at, upload)
		return ""
	case u.User != nil:
		o.noteLoss("%surl: it holds a user or password, which whoever may look would see: %s", at, upload)
		return ""
	}
	var secret bool
	for _, header := range slices.Sorted(maps.Keys(headers)) {
		if credential(header) {
			o.noteLoss("%sheaders: %s: an Asset names no Secret, and the server fetches without it, so its url is left out: %s", at, header, upload)
			secret = true
		} else {
			o.noteLoss("%sheaders: %s: the server fetches without it; if the address wants it, %s", at, header, upload)
		}
	}
	if secret {
		return ""
	}
	return text
}

// credential says whether a header lets somebody in.
func credential(header string) bool {
	header = strings.ToLower(header)
	return slices.ContainsFunc([]string{"auth", "cookie", "token", "key", "secret", "password"}, func(word string) bool { return strings.Contains(header, word) })
}

// addBuilds gives the asset one build for each kind of machine. One that an earlier build is for
// would never be used, as in Sensu.
func addBuilds(o *object, spec *model.AssetSpec, b *build) {
	if len(b.machines) == 0 {
		o.noteChange("%sits filters are true of no machine: left out", b.at)
	}
	var beyond, never []string
	for _, m := range b.machines {
		m.SHA512, m.URL = b.archive.SHA512, b.archive.URL
		i := slices.IndexFunc(spec.Builds, func(was model.AssetBuild) bool { return was.Platform() == m.Platform() })
		switch {
		case i >= 0 && spec.Builds[i].SHA512 == m.SHA512:
		case i >= 0:
			never = append(never, m.Platform())
		case len(spec.Builds) == model.MaxBuilds:
			beyond = append(beyond, m.Platform())
		default:
			spec.Builds = append(spec.Builds, m)
		}
	}
	if len(never) > 0 {
		o.noteChange("%snever used for %s: another build is for the same, in Sensu, too", b.at, strings.Join(never, ", "))
	}
	if len(beyond) > 0 {
		o.noteLoss("%snot for %s: an asset has at most %d builds", b.at, strings.Join(beyond, ", "), model.MaxBuilds)
	}
}
