package search

import (
	"slices"
	"strings"
)

// Words that no dictionary has are found by how they are written: names and words that
// languages share, in the letters and with the endings of each, and slips of the keyboard.
const (
	opening    = 5  // letters that a word begins with
	likeSounds = 16 // words that one may stand for
	alike      = 60 // what such a word counts for, in hundredths
	maxWord    = 64 // bytes of a word that is compared, and of one that the dictionary is asked for
)

var latin = strings.NewReplacer(
	"щ", "sh", "ш", "sh", "ч", "ch", "ж", "z", "ц", "c", "х", "h", "ю", "u", "я", "a", "э", "e", "й", "i", "ы", "i", "ь", "", "ъ", "",
	"а", "a", "б", "b", "в", "v", "г", "g", "д", "d", "е", "e", "з", "z", "и", "i", "к", "k", "л", "l", "м", "m", "н", "n", "о", "o",
	"п", "p", "р", "r", "с", "s", "т", "t", "у", "u", "ф", "f")

var plain = strings.NewReplacer("ph", "f", "ck", "k", "ch", "h", "sz", "sh", "cz", "ch", "x", "ks", "q", "k", "c", "k", "w", "v", "z", "s", "y", "i", "j", "i")

// sounds are the keys under which words are alike: how one begins, and its consonants. A
// word that is short has neither.
func sounds(word string) []string {
	w := plain.Replace(latin.Replace(word))
	letters := slices.Compact([]byte(w))
	var keys []string
	if len(letters) >= opening {
		keys = append(keys, "^"+string(letters[:opening]))
	}
	consonants := slices.DeleteFunc(letters, func(c byte) bool { return strings.IndexByte("aeiou", c) >= 0 })
	if len(consonants) > 3 {
		keys = append(keys, string(consonants))
	}
	return keys
}

// heard has the index know a word, or forget it.
func (x *Index) heard(word string, there bool) {
	if strings.HasPrefix(word, idea) || len(word) > maxWord {
		return
	}
	for _, key := range sounds(word) {
		all := x.sounds[key]
		i, found := slices.BinarySearch(all, word)
		switch {
		case there && !found:
			x.sounds[key] = slices.Insert(all, i, word)
		case !there && found && len(all) == 1:
			delete(x.sounds, key)
		case !there && found:
			x.sounds[key] = slices.Delete(all, i, i+1)
		}
	}
}

// alike are words of the index that one which it does not have is like.
func (x *Index) alike(word string) (all []term) {
	if len(word) > maxWord {
		return nil
	}
	for _, key := range sounds(word) {
		some := x.sounds[key]
		for _, other := range some[:min(len(some), likeSounds)] {
			all = append(all, term{other, alike})
		}
	}
	return all
}
