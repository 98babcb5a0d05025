"""Does a result hold what its source holds?"""
