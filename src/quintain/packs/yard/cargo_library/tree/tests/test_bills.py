from cargo import bills


def test_lines():
    assert bills.bill_lines([1, 3])[-1].startswith("total: ")
