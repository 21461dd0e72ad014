package model

import "strings"

// Hidden stands where a secret is that the reader may not see.
const Hidden = "(hidden)"

// ShownURL leaves scheme and host: what follows may be a secret. The address may hold variables, so it is no URL yet.
func ShownURL(address string) string {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		return Hidden
	}
	host := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		host = rest[:end]
	}
	more := rest[len(host):]
	host = host[strings.LastIndexByte(host, '@')+1:]
	if more == "" || more == "/" {
		return scheme + "://" + host + more
	}
	return scheme + "://" + host + "/" + Hidden
}

// ShownPlace leaves an address up to its query, where tokens and signatures are.
func ShownPlace(address string) string {
	if place, _, ok := strings.Cut(address, "?"); ok {
		return place + "?" + Hidden
	}
	return address
}
