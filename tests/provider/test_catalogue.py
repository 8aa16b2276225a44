from instar.provider.catalogue import Entry, shipped
from instar.provider.library import KINDS


def test_the_catalogue_is_dated_and_names_its_source():
    assert shipped().dated
    assert "override" in shipped().source


def test_every_providers_own_choices_are_among_its_models():
    for name, vendor in shipped().providers.items():
        for chosen in (vendor.default, vendor.small):
            assert chosen is None or chosen in vendor.models, name
        assert vendor.url.startswith("https://") or vendor.local or vendor.protocol in KINDS, name
        assert vendor.env or vendor.local or vendor.protocol == "google-vertex", name


def test_figures_are_plausible():
    entries = [entry for vendor in shipped().providers.values() for entry in vendor.models.values()]
    assert len(entries) >= 60
    for entry in entries:
        assert entry.context == 0 or entry.context >= 8192
        assert entry.output <= entry.context or entry.context == 0
        assert all(price is None or 0 <= price < 200 for price in entry.cost)
        prices = entry.prices
        if prices.cache_read is not None and prices.input:
            assert prices.cache_read < prices.input


def test_a_price_that_is_not_given_is_unknown():
    prices = Entry(name="x", cost=[1.0, 2.0]).prices
    assert (prices.input, prices.output, prices.cache_read, prices.cache_write) == (1.0, 2.0, None, None)
    assert Entry(name="x").prices.input is None
