BASE_CHAINS = 8


class Imputed:
    pass


class UnknownRecords:
    pass
